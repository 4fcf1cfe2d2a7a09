set -eu
# as TYPE [FILTER] converts the file in.* to out/in.TYPE: formulas are calculated, macros and
# links are off.
as() {
	mkdir -p profile/user
	cat >profile/user/registrymodifications.xcu <<'END'
<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load"><prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop></item>
<item oor:path="/org.openoffice.Office.Calc/Content/Update"><prop oor:name="Link" oor:op="fuse"><value>2</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="DisableMacrosExecution" oor:op="fuse"><value>true</value></prop></item>
</oor:items>
END
	soffice -env:UserInstallation="file://$PWD/profile" --headless --norestore --nolockcheck \
		--convert-to "$1${2:+:$2}" --outdir out in.* >&2
}
